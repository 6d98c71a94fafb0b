"""Bitmaps of row indexes in deletion vectors."""
