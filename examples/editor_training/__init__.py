"""What `train_editor.py` is made of: files, edits of known result, a low-rank adapter, its training and its score."""
