"""Figures: samples, rounds, profiles, reports."""
