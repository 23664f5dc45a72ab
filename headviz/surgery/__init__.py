"""Surgery: collapsed heads get new weights and are trained, the rest of the model stays as it is to the last bit.

Two ideas hold it together. What is trained are slices of a head's own: its rows of the Q/K/V projections and its columns
of W_O, as parameters beside a frozen model that is only called, never changed. And a repair is an experiment with
controls: the same heads new but untrained, trained but not new, healthy heads treated the same way, heads removed.

Source: "Surgical Repair of Collapsed Attention Heads in ALiBi Transformers" (arXiv 2603.09616).
"""
