"""`python -m docs.page`: write the page that needs no kernel."""

import argparse

from docs.page.build import build_page

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m docs.page", description=__doc__)
    parser.add_argument("--out", metavar="FOLDER", default="site", help="default: site")
    options = parser.parse_args()
    print(f"wrote {build_page(options.out)}")
