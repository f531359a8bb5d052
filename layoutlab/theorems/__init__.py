"""Theorems: a handoff proved for all values of its symbols, and formulas that show why."""

from layoutlab.theorems.proof import Proof, proof_of
from layoutlab.theorems.theorem import Case, Counterexample, Theorem, prove

__all__ = ["Case", "Counterexample", "Proof", "Theorem", "proof_of", "prove"]
