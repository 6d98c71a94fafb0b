"""Log shipping: file actions of the source become file actions of the target. The rules are in `log_shipping` of the core."""
