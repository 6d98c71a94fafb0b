"""Rules for what a spec may request of a pod: template fields, images, volumes, variables, Spark settings, targets."""
