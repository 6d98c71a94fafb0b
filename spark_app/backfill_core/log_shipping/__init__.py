"""Log shipping: folds several versions of a source's log into file actions of the target."""
