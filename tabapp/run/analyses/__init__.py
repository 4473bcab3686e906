"""The analyses of a run. Each module declares one: its event, how it is requested, and its texts.

`tabapp.run.record.analysis` explains the declarations.
"""
