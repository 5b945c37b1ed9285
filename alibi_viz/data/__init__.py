"""What models read: texts and tasks."""
