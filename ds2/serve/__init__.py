"""The live server: `ds2 serve`.

socket -> server.py -> application.py -> websocket_session.py, openai_routes.py
                                         -> process_choice.py, model_process.py, stream_handle.py -> pipe
                                                                                                      |
                                   model process: model_worker.py = dispatch.py + worker_stream.py + model
"""
