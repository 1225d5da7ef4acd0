"""Reports for people: pages, charts, the privacy statement and the model card."""
