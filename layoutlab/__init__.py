"""layoutlab: does every element land where it will be read?"""

from layoutlab.errors import LayoutError
from layoutlab.layout import Layout, make_identity_layout, make_layout
from layoutlab.swizzle import ComposedLayout, Swizzle

__all__ = ["ComposedLayout", "Layout", "LayoutError", "Swizzle", "make_identity_layout", "make_layout"]
