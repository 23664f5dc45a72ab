"""The dashboard's router: the list of pages, and the sidebar in which model and data are chosen. Never imports torch."""

import streamlit as st

from headviz import ui
from headviz.errors import HeadvizError
from headviz.ui import sidebar

PAGES = [
    st.Page("pages/home.py", title="Home", icon=":material/home:", default=True),
    st.Page("pages/heads.py", title="Heads", icon=":material/grid_on:"),
    st.Page("pages/ablation.py", title="Ablation", icon=":material/power_settings_new:"),
    st.Page("pages/disagreement.py", title="Disagreement", icon=":material/alt_route:"),
    st.Page("pages/bands.py", title="Bands", icon=":material/stacked_bar_chart:"),
    st.Page("pages/surgery.py", title="Surgery", icon=":material/healing:"),
    st.Page("pages/compare.py", title="Compare", icon=":material/compare_arrows:"),
    st.Page("pages/jobs.py", title="Jobs", icon=":material/pending_actions:"),
]

st.set_page_config(
    page_title="headviz", page_icon=".streamlit/icon.png", layout="wide", initial_sidebar_state=310
)
ui.start()
page = st.navigation(PAGES)
with st.sidebar:
    try:
        sidebar.pick_model()
        sidebar.pick_data()
        ui.jobs_indicator()
    except HeadvizError as error:
        st.error(str(error), icon=":material/error:")
try:
    page.run()
finally:
    ui.spare_modules()
