"""Views: each table of the screens and its details, declared once.

`catalog` has all views; `workers`, `work` and `cluster` declare them, with `View`, `Field` and the types of values.
The terminal, the page, `scaler_top --once --json` and the metrics render them, and `rows` sorts and filters for all.
No view has state: a new topic of the stream needs an item, its maker in the scheduler, and a view here.
"""
