"""Search that learns what people mean: texts, an embedder, an index, a search, marks, and a better search.

Run it from anywhere with `python docs/tutorials/text_search.py`. It takes some seconds and downloads nothing. What it
prints is in text_search.txt, which the tests compare.
"""

import itertools
import tempfile

from onlinehash import LiveIndex, connect, serve

# 1. Texts. Tickets of a help desk, made up from what people write about four subjects.
SUBJECTS = {
    "sign-in": (
        ["I cannot log in", "My password is rejected", "The account is locked", "Two-factor codes never arrive",
         "The reset link has expired", "My user name is unknown", "It logs me out again"],
        ["since this morning", "on my phone", "after the update", "from the office", "in any browser", "on a laptop"],
    ),
    "payment": (
        ["My card was declined", "I was charged twice", "The invoice shows a wrong amount", "Please send a receipt",
         "The discount is missing", "A refund has not come", "The bank says no"],
        ["for March", "although I paid", "on the last bill", "with tax included", "by transfer", "in my currency"],
    ),
    "delivery": (
        ["The parcel has not arrived", "Tracking shows no movement", "The box came damaged", "It went to a neighbour",
         "The courier rang nowhere", "Half of it is missing", "Customs keeps it"],
        ["since Monday", "from your warehouse", "at my address", "during the storm", "in the second van", "abroad"],
    ),
    "bug": (
        ["The app crashes", "The screen stays white", "Saving a file fails", "The search finds nothing",
         "The cursor jumps", "Printing cuts the margin", "The menu is empty"],
        ["on start", "when I scroll", "with a long name", "in dark mode", "without a message", "on the second monitor"],
    ),
}  # fmt: skip
ENDINGS = [
    "",
    "Please help.",
    "It is urgent.",
    "Thank you!",
    "What should I do?",
    "Any idea?",
    "Regards, Kim",
    "Again!",
]
tickets = [
    {"subject": subject, "text": f"{opening} {place}. {ending}".strip()}
    for subject, (openings, places) in SUBJECTS.items()
    for opening, place, ending in itertools.product(openings, places, ENDINGS)
]

# 2. An embedder turns texts into vectors. "lexical" goes by words and needs no model; anything with encode(texts), such
#    as a SentenceTransformer, can be given instead. The index keeps the texts in its payloads.
folder = tempfile.TemporaryDirectory()
index = LiveIndex(n_bits=64, path=f"{folder.name}/tickets", embed="lexical")
index.add_texts([ticket["text"] for ticket in tickets], payloads=tickets)
print(f"{len(index)} tickets, {index.embedder.n_features} values a vector, {index.n_bits} bits a code")


# 3. Search by typing.
def show(hits):
    for payload in index.payloads_of(hits.ids.tolist()):
        print(f"  {payload['subject']:8}  {payload['text']}")


QUERY = "money problem"
print(f"\n{QUERY!r} before:")
show(index.find_text(QUERY, k=2))

# 4. Marks. Whoever looks at results says which of them were meant; here that is known, so we can play the part: twelve
#    results of each of four queries are marked, and as many tickets that were filed before. A mark counts from the next
#    search on.
MEANT = {
    "money problem": "payment",
    "cannot get into my profile": "sign-in",
    "where is my order": "delivery",
    "software trouble": "bug",
}


def right(queries):
    """The share of the ten nearest tickets that are about what was meant."""
    found = [index.payloads_of(index.find_text(query, k=10).ids.tolist()) for query in queries]
    wanted = [MEANT[query] for query in queries for _ in range(10)]
    got = [payload["subject"] for payloads in found for payload in payloads]
    return sum(map(str.__eq__, got, wanted)) / len(got)


print(f"\nshare of right tickets among the first ten, before: {right(MEANT):.2f}")
for query, subject in MEANT.items():
    for _ in range(3):  # three looks at the results, four marks each
        seen = index.find_text(query, k=4).ids.tolist()
        index.learn_text(query, seen, [index.get(id).payload["subject"] == subject for id in seen])
    some = [id for id, ticket in enumerate(tickets) if ticket["subject"] == subject][::30]
    index.learn_text(query, some, True)  # and what a colleague had filed by hand
print(f"share of right tickets among the first ten, after:  {right(MEANT):.2f} (of the queries that were marked)")

# 5. A better search. The marks of one query count for it and for those that are nearly equal; what they have in common
#    is learned by the hash functions and by the order of find, for all queries, as marks grow to hundreds.
print(f"\n{QUERY!r} after {index.learner.pair_metric_.n_pairs} marks:")
show(index.find_text(QUERY, k=4))

# 6. Everything is kept. The same over HTTP: a service embeds, the client sends texts.
index.close()
index = LiveIndex.open(f"{folder.name}/tickets")
with serve.background(index, label="subject") as url, connect(url) as remote:
    same = remote.find_text(QUERY, k=4).ids.tolist() == index.find_text(QUERY, k=4).ids.tolist()
    print(f"\nover HTTP, after it was closed and opened: the same answers? {same}")
    remote.add_texts(["The direct debit failed. Please help."], payloads=[{"subject": "payment"}])
    remote.learn_text("automatic payments", len(tickets), similar=True)
    (first,) = remote.find_text("automatic payments", k=1).ids.tolist()
    print("'automatic payments' over HTTP:", remote.get(first).payload["text"])
folder.cleanup()
