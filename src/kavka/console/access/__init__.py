"""Who may come into the console, and what is written down about what they did.

Decides for one request at a time. Must not know any page, nor what an action does.

guard     every request passes it before a page sees it
auth      users, their rights, their passwords; how often a wrong password may be tried
route_rights  the table of which right each address takes
single_sign_on  logins by a provider of OpenID Connect
sessions  who a browser is, from one request to the next
csrf      whether a form comes from one of our own pages
counted_stream  answers that go on and on, a bounded number at a time
turns     costly work: who waits for it, and that it ends with who asked for it
headers   what every answer forbids the browser
audit     the audit log: who did what, and how it came out
audit_chain  the hashes that show whether the audit log is as it was written
"""
