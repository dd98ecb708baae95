"""From hours of raw recordings to a clean training set (Deep Speech 2, section 4): align, segment, filter, report."""
