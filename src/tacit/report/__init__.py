"""What a person looks at: pictures and pages."""
