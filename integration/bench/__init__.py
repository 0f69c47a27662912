"""Measures the release binaries on accounts of thousands.

    make bench          every reaper: CPU, memory, calls, and how they grow with the account
    make bench-scan     the command `curfew scan`
    make bench-peer     Cloud Custodian beside the reaper of instances, against the same answers

Moto takes half a minute to describe 10,000 instances, so a process of its own (endpoint.py) renders the answers beforehand; its CPU time
counts for no figure.
"""
