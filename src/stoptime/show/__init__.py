"""What people look at: reports and the explorer."""
