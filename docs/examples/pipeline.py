"""The estimator in a scikit-learn pipeline: public samples take the same steps as the records."""

import sklearn
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import tacit

parts = tacit.digits()
with sklearn.config_context(enable_metadata_routing=True):
    model = Pipeline(
        [
            ("scale", FunctionTransformer(lambda samples: samples / 16)),  # learns nothing, so it costs nothing
            ("distill", tacit.PrivateDistiller(epsilon=1.0, classes=range(10))),
        ],
        transform_input=["public"],
    )
    model.fit(parts.private_samples, parts.private_labels, public=parts.public_samples)

print("accuracy:", model.score(parts.test_samples, parts.test_labels))
print(model[-1].guarantee_)
