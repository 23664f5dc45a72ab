"""Results → figures. Pure functions: no streamlit, no torch; plotly is imported here and nowhere else.

fmt        numbers as people read them             heatmap  the map of a score, and of how often it says inactive
scales     what each colour means, both themes     spread   distributions and the profile of the layers
frame      the empty plotly figure all start from  head     one head among all
cells      any layer × head figure                 pattern  one head on one text
multiples  all scores at a glance                  export   print figures (matplotlib)
tables     rankings, long tables, the caption      redraw   a script that draws it again from a CSV
delta      the map of a change                     order    by gradient, and by what heads cost alone

Nothing is imported from here by itself: the pages that only draw never load matplotlib.
"""
