"""What the ablation page is made of: the plan in the view, its measurements, its controls, and a file a panel."""
