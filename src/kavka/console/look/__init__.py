"""How values become what a reader sees.

Decides form, words and language. Must not know how anything was read, nor what a page is about.

templating            the templates' environment, and what every page knows of its reader
view                  long lists in pages, search, order, links that keep a table's state
format                numbers and times
charts                curves, ISR membership and shares as SVG
i18n                  texts in the reader's language
sentence_translation  sentences of brokers and errors, recognised by their form and translated
decision_text         a why-record: what changed, why, and its evidence in words
failures              failed checks, named by what is wrong
health_text           a health report: the colour, the words, the links
request_times         requests by API and stage; single ones that were slow or throttled
record_band           a share-partition's records as a band over their offsets
replica_history       who was in an ISR and when; what a broker's death costs
setting_rows          settings: value, default, source, meaning, effect; two beside each other
history_charts        a cluster's history and decisions as charts and lists
"""
