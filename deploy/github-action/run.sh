#!/usr/bin/env bash
# Runs opgate with the words of OPGATE_ARGUMENTS: the action's second step. Quotes group words. Nothing else is special: no
# variable, pattern or command in them is expanded.
set -euo pipefail

arguments=() word='' quote='' in_word=''
# A space at the end ends the last word.
text="$OPGATE_ARGUMENTS "
for ((index = 0; index < ${#text}; index++)); do
    character=${text:index:1}
    if [[ -n $quote ]]; then
        if [[ $character == "$quote" ]]; then quote=''; else word+=$character; fi
    elif [[ $character == [\"\'] ]]; then
        quote=$character in_word=1
    elif [[ $character != [[:space:]] ]]; then
        word+=$character in_word=1
    elif [[ -n $in_word ]]; then
        arguments+=("$word")
        word='' in_word=''
    fi
done
if [[ -n $quote ]]; then
    # Not the input itself: the runner obeys commands in what is printed.
    echo "error: a quote in the input arguments has no end" >&2
    exit 2
fi
((${#arguments[@]})) || exit 0
exec opgate "${arguments[@]}"
