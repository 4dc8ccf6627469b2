"""English: how complete a partial transcript is."""

from __future__ import annotations

import re
from typing import Final

from .script import word_set

BROKEN_OFF: Final = 0.1
ANNOUNCES: Final = 0.4
WISH: Final = 0.5
STATEMENT: Final = 0.65
SHORT: Final = 0.8
REQUEST: Final = 0.9
QUESTION: Final = 0.95
WHOLE: Final = 1.0

_FILLERS: Final = word_set("um uh er erm hmm well so like basically actually anyway")
_DETERMINERS: Final = word_set("a an the my your our their its every another each whose")
_CONJUNCTIONS: Final = word_set(
    "and or but because cause if when while although though since unless until than whether nor whereas plus"
)
_PREPOSITIONS: Final = word_set(
    "of to for from with at by about into onto without between among during against towards toward under behind "
    "beside near except despite per via upon through after before like as"
)
_PARTICLES: Final = word_set("off up out over down around")
_PHRASAL: Final = {
    "in": word_set("come log sign check get fill plug move cut let bring it them that me us him her believe go"),
    "on": word_set("go hold hang come carry move turn it that them light lights later now put keep try"),
}
_AUXILIARIES: Final = word_set(
    "is are was were am be been do does did has had will would can could should may might must shall isn't "
    "aren't wasn't weren't i'm i'd i'll i've you're you'll you'd we're we'll we've they're they'll it'll gonna "
    "wanna going's let's there's what's who's where's how's"
)
_ADVERBS: Final = word_set("never always usually also probably certainly typically")
_CONTRACTIONS: Final = word_set(
    "i'm i'd i'll i've you're you'll you'd we're we'll we've they're they'll it'll let's there's"
)
_BE: Final = word_set("is are was were am be been")
_SAYING: Final = word_set(
    "say says said think thinks thought know knows knew told tell hope believe heard mean means sure"
)
_SUBJECTS: Final = word_set("i we they he she")
_DEGREES: Final = word_set("very really quite more most too rather such pretty extremely only just even almost nearly")
_QUANTITIES: Final = word_set("some any many much several few two three four five six seven eight nine ten hundred")
_TRANSITIVE: Final = word_set(
    "want need find show give send bring buy get take make put include includes contain contains prefer wants "
    "needs gives shows makes takes lives costs means ask says said told called named wonder wondering tell "
    "explain describe compare choose recommend suggest remind"
)
_ADJECTIVES: Final = word_set(
    "blue red green black white yellow brown big small large little long short new old next first second third "
    "last best better other main good bad nice different whole only biggest smallest cheapest nearest latest "
    "newest most right early late big real great"
)
_WH: Final = word_set("what who whom whose which where when why how what's who's where's how's when's why's")
_INVERTED: Final = word_set(
    "is are was were am do does did has have had will would can could should may might must shall isn't aren't "
    "don't doesn't didn't won't can't couldn't wouldn't"
)
_PRONOUNS: Final = word_set("it that this them him her us me you they there he she i we these those one")
_IMPERATIVES: Final = word_set(
    "tell show find give explain book put set remind play stop cancel make write read describe look see get plan "
    "work compare draft design calculate think develop estimate turn create figure prove analyze go move let's "
    "walk say call open close start please forget never drop help order add change send search check translate "
    "spell list pause repeat"
)
_SUBORDINATORS: Final = word_set("if when while although though since unless because after before once whenever until")
_SUBORDINATING_PHRASES: Final = ("as soon as ", "as long as ", "even if ", "even though ", "in case ", "every time ")
_ACKNOWLEDGEMENTS: Final = word_set(
    "yes yeah yep no nope okay ok sure right thanks hello hi hey stop cancel great good fine perfect exactly "
    "mm-hm hmm mhm bye goodbye cool please enough nothing nice wow really"
)
_TIME: Final = re.compile(
    r"\b(?:at|on|in|tomorrow|tonight|today|when|before|after|every|next|later|noon|midnight|morning|evening|\d)\b"
)
_VERB_BEFORE_PREPOSITION: Final = re.compile(
    r"(?:ing|ed|look|come|live|go|stand|work|belong|listen|wait|talk|think|deal|speak|travel|start|refer|call|pay|go|"
    r"up|it|that|this|you|he|she|they|we|them|for)$"
)

_BROKEN_PHRASES: Final = re.compile(
    r"(?:\b(?:let me (?:think|see|check)|(?:i|you) mean|you know|kind of|sort of|a lot of|such as|for example|"
    r"for instance|instead of|in order to|as soon as|as well as|(?:do|can|could|would|will|should|did|"
    r"have) (?:you|i|we|they)|(?:is|are|was|were) there|how (?:many|long|far|often|big|old)|what (?:if|kind|"
    r"sort)|i (?:think|guess|believe|hope|suppose|wonder)|i was wondering|my question is|the (?:thing|problem|"
    r"point|reason|question|idea|issue) is|which one of(?: \w+)?|(?:one|some|most|all|both|none) of (?:the|my)|"
    r"do you know(?: how (?:many|much|to))?|can you (?:tell|show|give)(?: me)?|could you (?:tell|show|"
    r"give)(?: me)?|tell me (?:about|how|why)|what i mean is|what would happen)|\bhow much(?: \w+){0,1})$"
)
_UNFINISHED_QUESTION: Final = re.compile(
    r"\b(?:what|when|where|why|how)(?: (?:much|many|long|often|far|\w+s))? (?:do|does|did|will|would|can|could|"
    r"should) (?:it|this|that|he|she|they|we|you|i|people|the \w+|an? \w+)$|^(?:is|are|was|were|did|does|do|"
    r"has|have|can|will) (?:the|my|your|our|their|a|an) \w+$"
)
_DIGIT: Final = word_set("zero oh one two three four five six seven eight nine 0 1 2 3 4 5 6 7 8 9")
_COMPLETE_PHRASES: Final = re.compile(
    r"^(?:i think so|yes i do|no i don't|so do i|me too|what if|what for|come on|go on|hold on|hang on|log in|"
    r"i do|i am|i can|i will|of course|how much|how many|how long|how old|how far|why not|that's it|"
    r"what is it like)$|\b(?:thank you|about you|and you|i do|i did|what to do|what it's like|i mean|right now|"
    r"from now on|no more|turn (?:it|that|them|the \w+|\w+) (?:on|off|up|down)|(?:a|one) (?:second|moment|"
    r"minute))$"
)
_ANNOUNCES: Final = re.compile(
    r"^(?:(?:okay|ok|so|well|hi|hello|hey|yes|yeah|actually|sorry|um|uh|and|but)[, ]+)*(?:i(?:'ve|"
    r" have)(?: got)? (?:a|an|this|some|one|another|two|three)\b|i(?:'m| am) (?:planning|thinking|trying|"
    r"looking|having|working|going|moving|wondering|calling)|i(?:'ve| have) been|i wanted to|"
    r"i was (?:wondering|thinking|at|in|on|just)|i (?:bought|got|ordered|went|tried|saw|met|received|noticed|"
    r"need some help)|we(?:'re| are) (?:planning|moving|going|thinking|having)|we had|there(?:'s| is| are|"
    r" was)|here(?:'s| is)|my \w+(?: \w+)? (?:is|has|was|keeps|won't|doesn't|did)|(?:yesterday|last (?:week|"
    r"night|month|year)|this morning|the other day|once)\b|(?:the|my|our) (?:order|phone|account|card|flight|"
    r"booking|reference) number|i called|(?:and|so) (?:then|my|the|i|we|he|she|it)\b)"
)
_HESITATIONS: Final = word_set("actually sorry wait well so anyway oh also and but then listen look")


def english_completeness(text: str) -> float:
    """See :func:`.lastword.completeness`."""
    raw = text.strip().lower().replace("’", "'")
    if raw.endswith(("...", "…", "-", "–", "—")):
        return BROKEN_OFF
    sentence = _last_sentence(raw)
    words = re.findall(r"[a-z0-9][a-z0-9'\-%$.:]*[a-z0-9%]|[a-z0-9]", sentence)
    if not words:
        return 0.0
    joined = " ".join(words)
    asked = raw.endswith("?")
    if raw.endswith((",", ":", ";")) and not _is_question(words):
        return BROKEN_OFF
    if _COMPLETE_PHRASES.search(joined):
        return REQUEST
    if len(words) == 1 and words[0] in _ACKNOWLEDGEMENTS:
        return SHORT
    if joined in _HESITATIONS:
        return 0.3
    if _breaks_off(words, joined):
        return BROKEN_OFF
    subordinate = words[0] in _SUBORDINATORS or joined.startswith(_SUBORDINATING_PHRASES)
    if subordinate and not _has_main_clause(words, sentence):
        return BROKEN_OFF
    if re.search(r"\b(?:compare|between)\b(?!.* (?:and|with|to|against) )", joined):
        return 0.2
    return _graded(words, joined, asked=asked)


def _graded(words: list[str], joined: str, *, asked: bool) -> float:
    if re.search(r"\bremind me to\b", joined) and not _TIME.search(joined.split("remind me to", 1)[1]):
        return 0.5
    if "number" in words and words[-1] in _DIGIT:
        return ANNOUNCES if all(word in _DIGIT for word in words[-4:]) else 0.2
    if _is_question(words):
        return WHOLE if asked and len(words) > 2 else QUESTION
    if _ANNOUNCES.search(joined) and not _asks_inside(words):
        return ANNOUNCES
    if words[0] in _IMPERATIVES or _asks_inside(words) or asked:
        return REQUEST
    return SHORT if len(words) <= 3 else STATEMENT


def _last_sentence(text: str) -> str:
    """What stands after the last full stop, question or exclamation mark that is not the final one."""
    body = text.rstrip(" .,!?;:")
    cut = max(body.rfind(mark + " ") for mark in ".!?")
    if cut >= 0 and re.search(r"\b(?:mr|mrs|ms|dr|st|prof|vs|e\.g|a\.m|p\.m)$", body[:cut]):
        return body
    return body[cut + 1 :].strip()


def _breaks_off(words: list[str], joined: str) -> bool:
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if last in _DETERMINERS | _CONJUNCTIONS or _BROKEN_PHRASES.search(joined) or _UNFINISHED_QUESTION.search(joined):
        return True
    if last in _PREPOSITIONS:
        return not _may_strand(words)
    if last in _PHRASAL:
        return before not in _PHRASAL[last] and not _may_strand(words)
    if last in _AUXILIARIES:
        return _auxiliary_hangs(words)
    if last in _SUBJECTS:
        return words[0] not in _WH or before not in _BE
    return _word_hangs(words, last, before) or _group_hangs(words, last, before)


def _word_hangs(words: list[str], last: str, before: str) -> bool:
    """Fillers, particles, degrees, quantities and verbs that want an object, by the word before them."""
    if last in {"well", "so"}:
        return before in {"and", "or", "um", "uh", "but", "is", "are", "was"}
    if last in _FILLERS | _ADVERBS:
        return before != ""
    if last == "not":
        return before in _AUXILIARIES
    if last in {"how", "which", "who"}:
        return len(words) > 2 and before not in {"know", "that's", "is"}
    if last in {"me", "us"}:
        return before in {"get", "give", "send", "bring", "buy"}
    if last in _PARTICLES:
        return before in _DETERMINERS | _BE | {"born", "interested", "lives", "live"}
    if last in (_DEGREES - {"much", "more", "too", "really", "most"}) | _QUANTITIES:
        return before in _BE | _DETERMINERS | {
            "and",
            "with",
            "have",
            "want",
            "need",
            "very",
            "so",
            "it's",
            "for",
            "only",
            "there",
        }
    if last == "that":
        return before in _SAYING or (before in {"me", "him", "her", "us", "them"} and bool(_SAYING & set(words)))
    if last in {"need", "want"}:
        return words[0] not in _WH and len(words) <= 3
    if last in _TRANSITIVE - {"get", "find", "ask", "means", "costs"}:
        return before in _SUBJECTS | {"to", "please", "you", "can"} and words[0] not in _WH
    return False


def _group_hangs(words: list[str], last: str, before: str) -> bool:
    """An article and an adjective without their noun: ``show me the blue``, but not ``which is the best``."""
    if before in _QUANTITIES and last in _ADJECTIVES - {"right", "late", "early"}:
        return True
    if before not in _DETERMINERS or last not in _ADJECTIVES:
        return False
    if len(words) > 2 and words[-3] in _BE and before == "the":
        return False
    if last == "little":
        return before != "a"
    return len(words) > 2 or last not in {"first", "second", "third", "last"}


def _may_strand(words: list[str]) -> bool:
    """Whether a final preposition belongs to a question word (``What are you looking for``)."""
    if len(words) < 3:
        return False
    asks = any(word in _WH for word in words[:-2])
    if asks and words[-1] == "like":
        return True
    return asks and _VERB_BEFORE_PREPOSITION.search(words[-2]) is not None and words[-2] not in {"is", "are"}


def _auxiliary_hangs(words: list[str]) -> bool:
    """``how much does`` and ``the thing is`` hang; ``what my dog's name was`` and ``I think he is`` do not."""
    if words[-1] in _CONTRACTIONS:
        return True
    wh = [at for at, word in enumerate(words[:-1]) if word in _WH]
    if wh:
        return len(words) - wh[-1] <= 3 and wh[-1] <= 1
    if len(words) <= 3 and words[0] in {"yes", "no", "yeah", "i", "it", "he", "she", "they", "we", "you", "that"}:
        return words[-1] == "have"
    return True


def _is_question(words: list[str]) -> bool:
    first = 0
    while first < len(words) - 1 and words[first] in _HESITATIONS | {"okay", "ok", "no", "yes", "please", "hey", "now"}:
        first += 1
    if words[first] in _WH:
        return first + 1 < len(words) or words[first] in {"why", "what", "who", "where", "when", "how"}
    return words[first] in _INVERTED and len(words) > first + 2


def _asks_inside(words: list[str]) -> bool:
    """A question or request that begins later in the sentence (``on July third is there ...``)."""
    for at in range(2, len(words) - 2):
        if words[at] in _INVERTED and words[at + 1] in _PRONOUNS and words[at - 1] not in _SUBJECTS:
            return True
        if words[at] in _WH and words[at + 1] in _INVERTED:
            return True
    return "please" in words


def _has_main_clause(words: list[str], sentence: str) -> bool:
    """Whether an ``if ...`` or ``when ...`` sentence has come to its main clause."""
    if words[0] == "when" and len(words) > 1 and words[1] in _INVERTED | _AUXILIARIES:
        return True
    if words[0] == "because" and len(words) >= 4:
        return True
    _, comma, rest = sentence.partition(",")
    if comma and len(re.findall(r"[a-z']+", sentence.rsplit(",", 1)[1])) >= 3:
        return True
    for at in range(3, len(words) - 1):
        if words[at] in _WH - {"which", "who"} or words[at] in _IMPERATIVES - {
            "work",
            "see",
            "order",
            "change",
            "plan",
        }:
            return len(words) - at >= 3
        if words[at] in _INVERTED and words[at + 1] in _PRONOUNS:
            return True
    return bool(rest) and len(rest.split()) >= 4
