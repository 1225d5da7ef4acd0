"""One budget over several runs: the ledger remembers what was spent and refuses what is too much."""

import tacit

parts = tacit.digits()
private = (parts.private_samples, parts.private_labels)
ledger = tacit.open_ledger("main.ledger", {"research": tacit.Ceiling(2)})  # in all, over every run

for epsilon in (0.5, 1.0, 1.0):
    try:
        tacit.distill(
            private, parts.public_samples, epsilon, classes=range(10), method="rknn", ledger=ledger, account="research"
        )
    except tacit.BudgetExceeded as refused:
        print("refused:", refused)
    print("left:", ledger.balance("research").remaining_shown)
ledger.close()
