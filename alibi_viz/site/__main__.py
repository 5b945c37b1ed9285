"""`python -m alibi_viz.site`: build the page that needs no kernel."""

import argparse

from alibi_viz.site.build import build_site

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m alibi_viz.site", description=__doc__)
    parser.add_argument("--out", metavar="FOLDER", default="site", help="default: site")
    options = parser.parse_args()
    print(f"wrote {build_site(options.out)}")
