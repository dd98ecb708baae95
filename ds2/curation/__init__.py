"""Turns hours of raw recordings into a training set (Deep Speech 2, section 4): align, segment, filter, report."""
