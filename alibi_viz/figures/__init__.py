"""Floor 4: arrays in, plotly figures out.

One file is one picture. Each has `blank()`, which lays out every trace and axis the picture will ever need, and
`draw(figure, ...)`, which puts arrays into them in one `batch_update`. The same `draw` serves a plain `go.Figure` in
a report and the live `FigureWidget` of an app: redrawing never builds a figure again. Nothing here knows a model or
a widget.
"""
