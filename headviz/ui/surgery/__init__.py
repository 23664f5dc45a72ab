"""The parts of the surgery page.

work.py     the one place through which the page asks the rest: which repairs there are, and what is there of one
case.py     one repair as the page shows it, finished or as far as it is, and numbers over its steps
design.py   which heads; presets.py those of the paper; knobs.py how; scheme.py the plan that the view stands for
launch.py   what a plan takes, what to know before, the button, the plan as a file
listing.py  all repairs, and the state of one: progress, cancel, resume, clone
chooser.py  what stands over a panel; panels.py, film.py, moved.py, after.py, outcome.py: the panels
versus.py   two repairs side by side
cautions.py what must be known of their models
limits.py   what may stand in the number boxes of a plan
onward.py   the repaired model as an ordinary checkpoint; take.py files to take away
words.py    sentences
"""
