"""
The words that hold a sentence together and say nothing of what it is about.

Pure. English ones are left out of a query for words, for documentation in English is
full of them. Those of other languages tell a question in one of them from noise.
"""

from docs_rag.lexical import words

# Question words, pronouns, auxiliaries, prepositions, and the verbs of asking for help.
ENGLISH = frozenset(
    words(
        """
        a about above after again against all also am an and any anyone are aren't as
        at be because been before being below between both but by can can't cannot
        could couldn't did didn't do does doesn't doing don't down during each either
        else ever every few for from further get gets getting give given got had has
        hasn't have haven't having he her here hers him his how however i i'd i'll i'm
        i've if in instead into is isn't it it's its itself just let's like make makes
        may me might more most must my myself need needs no nor not now of off on once
        only onto or other our ours out over own per please rather same shall she
        should so some such than that that's the their theirs them then there these
        they this those though through to too under until up upon us use used uses
        using very via want wants was wasn't way ways we were what what's when where
        whether which while who whom whose why will with within without won't would yes
        yet you your yours
        """
    )
)

# The most frequent ones of the languages that a multilingual model is likely to know
# and that are written with Latin letters.
_OTHER = frozenset(
    words(
        """
        der die das den dem des ein eine einen einem einer und oder ist sind nicht mit
        von zu zum zur im auf für wie was wo wann warum welche welcher ich mein meine
        man kann muss wird werden haben sich aus bei nach über wenn
        el la los las un una unos unas de del y o es son no con por para en que qué
        cómo como cuál cuándo dónde se mi su al lo puedo
        le les des du et ou est sont ne pas avec pour dans sur que qui quoi comment
        quel quelle je mon ma ce cette une au aux puis
        il gli i uno dei della delle e è non con per nel che chi quale perché mio mia
        os as um uma dos da das do em não com como qual onde quando meu minha
        het een van en niet met voor op hoe wat waar wanneer welke ik mijn kan zijn
        jest nie się na do z w i jak co gdzie kiedy czy mój moja to dla od
        bir ve bu için ile nasıl ne nerede mı mi değil
        och att det som en på är hur vad jag inte med av
        """
    )
)


def is_other_language(tokens: list[str]) -> bool:
    """
    Say whether a query can be a sentence in another language than English.

    It is where it holds a function word of one, or letters that are not Latin: nobody
    types those by leaning on the keyboard.
    """
    return any(token in _OTHER or not is_latin(token) for token in tokens)


def is_rather_other_language(tokens: list[str]) -> bool:
    """Say whether more of its function words are of another language than English."""
    others = sum(token in _OTHER and token not in ENGLISH for token in tokens)
    return others > sum(token in ENGLISH for token in tokens)


def is_latin(token: str) -> bool:
    """Say whether a token is written with Latin letters, digits and signs alone."""
    return all(ord(character) < 0x250 for character in token)
