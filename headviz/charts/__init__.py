"""Results → figures. Pure functions: no streamlit, no torch; plotly is imported here and nowhere else.

fmt      numbers as people read them             heatmap  layer × head maps
scales   what each colour means, in both themes  spread   distributions, profiles, one head's scores
frame    the empty plotly figure all start from  pattern  one head on one text
tables   rankings, long tables, the caption      export   print figures (matplotlib)
redraw   a script and a CSV that draw it again

Nothing is imported from here by itself: the pages that only draw never load matplotlib.
"""
