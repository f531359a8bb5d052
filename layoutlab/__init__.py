"""layoutlab: does every element land where it will be read?"""
