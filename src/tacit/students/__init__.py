"""What is trained on the labeled public data: any estimator with fit and predict."""
