"""Runs of simulated clusters: drawn, recorded, repeated, made smaller.

swarm         one seed's whole simulation; its last phase: liveness
campaign      many seeds; their figures (campaign_figures), rare states (states), seeds run twice (twins)
recorded_run  one run as somebody asked for it; its page: page
shrink        a failing run made smaller; as it is written down: regression
"""
