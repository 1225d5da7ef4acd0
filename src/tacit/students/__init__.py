"""Students: the models that are trained on the labeled public data; any estimator with fit and predict."""
