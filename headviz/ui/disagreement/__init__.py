"""What the disagreement page is made of: the budget, the brush, and a panel for each question about two scores."""
