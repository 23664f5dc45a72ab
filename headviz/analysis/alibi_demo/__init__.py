"""How the bundled ALiBi model `alibi-demo` came to be: its training (`train`), and its card (`card`).

Its collapsed heads were made on purpose (`plan.PULLS`): it shows a method, and is no evidence for a claim. The model
itself lies in headviz/models/alibi_demo. Nothing of this package runs in the dashboard.
"""
