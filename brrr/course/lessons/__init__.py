"""What a lesson calls: guesses, comparisons, exercises, and the student's copies."""
