"""Reverse k-NN, class sums and PATE on the same records at the same ε and δ, side by side."""

import tacit

parts = tacit.digits()
private = (parts.private_samples, parts.private_labels)

print(f"{'method':12} {'labels right':>12} {'student right':>14}")
for method in (tacit.ReverseKNN(), tacit.ClassSums(), tacit.PATE(queries=50)):
    run = tacit.distill(private, parts.public_samples, 1.0, delta=1e-5, classes=range(10), method=method, seed=1)
    labels = (run.labels == parts.public_labels).mean()
    student = (run.student.predict(parts.test_samples) == parts.test_labels).mean()
    print(f"{method.name:12} {labels:12.1%} {student:14.1%}")
