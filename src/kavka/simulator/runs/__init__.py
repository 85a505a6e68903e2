"""Runs of simulated clusters: drawn, recorded, repeated, made smaller.

swarm         one seed's whole simulation
campaign      many seeds; their figures (campaign_figures), seeds run twice (twins)
explore       one fault at every step of short stories; the stories, and what must have happened in each: stories
recorded_run  one run as somebody asked for it; its page: page
shrink        a failing run made smaller; as it is written down: regression
"""
