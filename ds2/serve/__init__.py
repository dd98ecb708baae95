"""The live server: `ds2 serve`.

socket -> server.py -> application.py -> vosk.py, openai.py -> pool.py, model_process.py, handle.py -> pipe
                                                                                                   |
                                                model process: worker.py = dispatch.py + stream.py + model
"""
