"""The parts of the surgery page.

work.py     the one place through which the page asks headviz.surgery: plans, progress, verdicts
case.py     one repair as the page shows it, finished or running, and the numbers over its steps
design.py   which heads; texts.py, training.py: on what and how; launch.py: what it takes, and the button
listing.py  all repairs, and the state of one
panels.py   the figures of one repair; film.py its film; after.py its heads before and after
verdict.py  what came of it, in words, with its intervals
versus.py   two repairs side by side
onward.py   the repaired model as an ordinary checkpoint; take.py files to take away
"""
