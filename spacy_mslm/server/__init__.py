"""A local web server: a page and an API for the entities of texts (extra `serve`).

    request ── access ── limits ── app ── batching ── answers ── pipeline
               token     size,            one thread, one nlp.pipe call
               host      time             for the requests that wait

    serve      load the pipelines, open the port, run
    app        paths and status codes
    schema     requests and answers
    page       the page, in one file

Texts are in memory only while they are read. They are in no log, error message or file.
"""
