"""The live server: `ds2 serve`.

socket (server.py, vosk.py, openai.py) -> pool.py -> | process: worker.py = dispatch.py + stream.py + the model |
"""
