"""Work over data larger than memory, part by part, on whatever engine there is."""
