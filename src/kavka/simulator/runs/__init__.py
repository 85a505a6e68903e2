"""Runs of simulated clusters: drawn, recorded, repeated, made smaller.

swarm         one seed's whole simulation
campaign      many seeds; their figures (campaign_figures), seeds run twice (twins)
explore       a fault, or two, at every step of short stories; the stories, and what must happen in each: stories
exploration   many such runs on all cores, counted and kept; what they have in common is played once: forked
recorded_run  one run as somebody asked for it; its page: page
shrink        a failing run made smaller; as it is written down: regression
"""
