"""Measures the release binaries on accounts of thousands, beside what people use today.

    make bench          every reaper: CPU, memory, calls, and how they grow with the account
    make bench-peer     Cloud Custodian, doing the same work against the same answers

Moto takes half a minute to describe 10,000 instances, so the answers here are rendered beforehand and served by a
process of its own (endpoint.py), whose work is nobody's measurement.
"""
