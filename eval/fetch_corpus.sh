#!/bin/sh
# Fetch the rust-lang/book at the commit that eval/golden/book.jsonl was written for,
# into DIR/docs/book (default: eval/.work/book). Needs git and the internet.
set -eu

COMMIT=917544888a55
DIR=${1:-$(dirname "$0")/.work/book}

if [ -d "$DIR/docs/book" ]; then
    echo "$DIR/docs/book is there already"
    exit 0
fi
CLONE=$(mktemp -d)
trap 'rm -rf "$CLONE"' EXIT
git clone --quiet --filter=blob:none --no-checkout \
    "https://github.com/rust-lang/book.git" "$CLONE"
git -C "$CLONE" checkout --quiet "$COMMIT" -- src
mkdir -p "$DIR/docs/book"
cp "$CLONE"/src/*.md "$DIR/docs/book/"
echo "$COMMIT: $(find "$DIR/docs/book" -name '*.md' | wc -l) files in $DIR/docs/book"
