"""Formulas of the site are MathML."""

from docs.formulas import mathml


def test_a_formula_is_mathml_that_needs_no_script():
    formula = mathml(r"\frac{1}{2}", "inline")
    assert formula.startswith('<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">')
    assert "<mfrac>" in formula


def test_a_formula_on_its_own_line_is_displayed_as_a_block():
    assert 'display="block"' in mathml("x", "block")


def test_a_function_is_an_operator_with_space_around_its_name():
    assert '<mo lspace="0.17em" rspace="0.17em">ln</mo>' in mathml(r"n \ln r", "inline")


def test_a_variable_stays_an_identifier():
    assert "<mi>r</mi>" in mathml(r"n \ln r", "inline")
