"""Every message of the package: what is wrong, where, and what to do. No message ever holds text
of a document: documents are named by id or stream index, places by character or token offsets.

Codes: M0xx model and training, M1xx data files and commands, M2xx tokenizer and saving.
"""


class Errors:
    # ---- model and training ----
    M001 = (
        "A window of {size} pieces leaves nothing to predict beside {context} pieces of context on "
        "either side. Set model.window to more than twice model.context."
    )
    M002 = "The stored wordpieces cannot be read ({error}). Save the pipeline again, or retrain it."
    M003 = "{name} is {value}, but must be from 0 to 1."
    M004 = "{name} is {value}, but must be above 0."
    M005 = (
        "Mask weights of {blm} (BLM) and {elm} (ELM) cannot be used: neither may be negative, and "
        "one must be above 0."
    )
    M006 = (
        "A schedule over the whole run needs to know its length, but total_steps is {value}. Set "
        "training.max_steps (0 means no limit there, which has no end to go down to)."
    )
    M007 = (
        "The schedule of {name} gives no value at all. Give a number, or a schedule that yields "
        "at least one."
    )
    M008 = "{name} is {value} at step {step}: a loss cannot weigh less than 0. Change the schedule."
    M009 = (
        "PMI masking needs a vocabulary, and none is set. Write one from the training text with "
        "'python -m spacy mslm pmi TRAIN OUTPUT', and give --paths.pmi OUTPUT."
    )
    M010 = (
        "The weights of {name!r} are a pickle that would run code when it is loaded, so it is not. "
        "Convert them on a machine where that is safe: load the model with transformers there and "
        "write it with `model.save_pretrained(folder, safe_serialization=True)`."
    )
    M011 = (
        "The encoder {name!r} cannot be loaded: {error}\nGive a Hugging Face hub name or a local "
        "folder with config.json and model.safetensors (--vars.encoder)."
    )
    M012 = (
        "The encoder {name!r} lacks {n} weights of its own architecture, or has them in another "
        "shape: {keys}. They are not replaced by random ones: use a complete checkpoint."
    )
    M013 = "The stored encoder config has no model_type. Save the pipeline again, or retrain it."
    M014 = (
        "No tokenizer can be loaded from {name!r} ({error}). Put tokenizer.json, or the vocabulary "
        "file, next to the weights."
    )
    M015 = (
        "{name!r} has only a slow tokenizer. Convert it once with transformers "
        "(`AutoTokenizer.from_pretrained(name).save_pretrained(folder)` writes tokenizer.json)."
    )
    M016 = "The tokenizer of {name!r} has no mask token, so its encoder cannot be trained by MSLM."
    M017 = (
        "The tokenizer of {name!r} has {n} pieces, its encoder has embeddings for {size}. The two "
        "do not belong together: use the tokenizer that came with the weights."
    )
    M020 = (
        "The gradient is not finite; no step was taken and the weights are as before. Lower the "
        "learn rate, or look for broken documents in the last batch."
    )
    M021 = (
        "The mslm model has no weights yet. Call nlp.initialize() to start from an encoder, or "
        "load a trained pipeline with spacy.load()."
    )
    M022 = (
        "The stored model cannot be read ({error}). Save the pipeline again, or retrain it; files "
        "of another version of spacy-mslm need that version."
    )
    M023 = (
        "The stored weights do not fit the stored architecture: {n} are missing, unknown or of "
        "another shape ({names}). Save the pipeline again, or retrain it."
    )
    M024 = (
        "A window of {window} pieces does not fit the encoder {encoder!r}, which takes {room}. Set "
        "components.mslm.model.window to {room} or less."
    )
    M025 = (
        "Encoders in ONNX need packages that are not installed ({error}). Install them with "
        "'pip install \"spacy-mslm[onnx]\"'."
    )
    M026 = (
        "This pipeline was optimised for prediction on a CPU and cannot learn. Train the pipeline "
        "that it was made of, and optimise that again."
    )
    M027 = (
        "The encoder ({family}) cannot be exported to ONNX: {error}\nUse the pipeline as it is, or "
        "train it with an encoder of another family."
    )
    M028 = "The stored ONNX encoder cannot be read ({error}). Optimise the pipeline again."
    M030 = "There is no view {view!r}. Use one of: {views} (--vars.view)."
    M031 = "loss_weights has wrong or missing keys: {keys}. It takes exactly {terms}."
    M032 = "A label must be a non-empty string, but is of type {type}."
    M033 = "{name}: the training set has no documents. Check the path (--paths.train)."
    M034 = (
        "{n} of {total} gold mentions ({share:.1%}) cannot be expressed in the tokens; up to "
        "{limit:.1%} is allowed. They are listed above by document and offsets. Use the tokenizer "
        "that the annotation was made for, or raise components.mslm.max_unaligned."
    )
    M035 = (
        "Document {doc} has a mention of type {label!r}, which the pipe does not know; it has "
        "{labels}. Add it with nlp.get_pipe('mslm').add_label(...), or initialise anew."
    )
    M036 = (
        "The loss {term} is not finite at step {step}. Training stops here; no step was taken, the "
        "weights are those of the step before. Lower the learn rate (training.optimizer), or look "
        "for broken documents in that batch."
    )
    M037 = (
        "No predicted mention has a confidence, so there is nothing to fit a temperature to. Give "
        "annotated text in which the pipeline finds entities."
    )
    M040 = (
        "Adaptation needs a folder for the encoder that it makes, and none is set. Give one with "
        "--paths.adapted, or leave out --paths.text."
    )
    M041 = (
        "{path} is not what this adaptation would make: it is of another encoder or of other "
        "settings (its adaptation.json tells). Give another --paths.adapted, or delete the folder."
    )
    M042 = (
        "The text for adaptation has no sentence in which an entity was found, or the teacher was "
        "never sure of one (adaptation.corpus.min_confidence). Check --paths.text and, where it is "
        "given, --paths.terms; a teacher is surer after more --training.max_steps."
    )
    M043 = (
        "Adaptation needs the pipeline whose tokenizer splits the text: initialise the pipe by "
        "nlp.initialize(), or give it nlp."
    )
    M050 = "There is no text to pretrain on. Give --paths.text: a file, or a JSON list of files."
    M051 = (
        "{path} is not what this pretraining would make: it is of other text, another encoder or "
        "other settings (its pretraining.json tells). Give another folder, or --force to start "
        "anew. To train a finished encoder further, give it with --vars.encoder."
    )
    M052 = "{path} exists, and is not the folder of a pretraining. Give another folder."
    M053 = "The loss {term} is not a number. Lower the learn rate."
    M054 = (
        "The loss is not a number at step {step}. The last checkpoint, of step {saved}, is in "
        "{path}. Lower the learn rate."
    )
    M055 = (
        "The text has {n} pieces, which is too little to train on and to hold some out: it takes "
        "more than two blocks of {length} (pretraining.length). Give more text."
    )
    M056 = "{path} has no [pretraining] block. Start from configs/pretrain.cfg."

    # ---- data files and commands ----
    M101 = "Unknown {what} {got!r}. Use one of: {expected}."
    M102 = (
        "{source}, line {line}: the last column is no entity tag. A tag is 'O', or one of "
        "{prefixes}, a hyphen and a label, such as 'B-Disease'. Correct the line, or remove it."
    )
    M103 = (
        "{source}, line {line}: the tag has an empty label. Give every mention a label, such as "
        "'B-Disease'; for untyped mentions use the same one everywhere."
    )
    M104 = (
        "{source}, line {line}: this tag is not legal here in {scheme}: {rule}. Correct the tag, "
        "or name the scheme of the file if it is another one."
    )
    M105 = (
        "{source}, line {line}: an I- tag opens a mention, as only IOB1 has it, but the B- tag of "
        "line {other} does not part two mentions of one label, as only IOB2 has it. I- tags that "
        "open a mention: {count} in the file. In IOB2 change these to B-."
    )
    M106 = "{path}: there is no such file. Check the path."
    M107 = (
        "{path}, line {line}: one column only, but a token and its tag are expected, separated by "
        "a tab or a space. The file may be cut off here: restore the line, or remove it."
    )
    M108 = (
        "{path}, line {line}: the token is empty. A line is a token, a tab and a tag; sentences "
        "are separated by a line with nothing on it."
    )
    M109 = "{path}, line {line}: not valid UTF-8. Convert the file to UTF-8 first."
    M110 = (
        "{path} holds no sentence. An IOB file has a token and its tag on every line, and an empty "
        "line after every sentence."
    )
    M111 = (
        "No path to the corpus is set. Give --paths.train and --paths.dev on the command line, or "
        "set them in [paths] of the config."
    )
    M112 = (
        "{path} is damaged or no .spacy file ({reason}). Write it again with 'python -m spacy mslm "
        "convert'."
    )
    M113 = (
        "{path} holds no documents. Write the .spacy files again with 'python -m spacy mslm "
        "convert'."
    )
    M114 = "The folder {path} holds no .spacy file. Write them with 'python -m spacy mslm convert'."
    M115 = (
        "{path} is a folder, but one file is expected here. Name a file in it, or convert the "
        "folder with 'python -m spacy mslm convert'."
    )
    M116 = (
        "The folder {path} holds none of the splits {expected}. Rename its files so, or convert "
        "them one by one."
    )
    M117 = "The folder {path} holds more than one of the {split} split: {found}. Leave one of them."
    M118 = (
        "The output {path} does not fit the input: a file, or a folder of BRAT files, is converted "
        "to a file that ends in '.spacy', a folder with splits to a folder, and never onto itself. "
        "Give another output."
    )
    M119 = (
        "{path}: document {place}: the token continues an entity that does not begin anywhere. "
        "Correct the annotation, or write the file again with 'python -m spacy mslm convert'."
    )
    M121 = (
        "The PMI vocabulary {path} cannot be read ({reason}). Write it with 'python -m spacy mslm "
        "pmi TRAIN OUTPUT', and give its path (--paths.pmi)."
    )
    M122 = (
        "{path}, line {line}: not a line of a PMI vocabulary, which has the PMI, the number of "
        "occurrences and a collocation of 2 to 4 words, separated by tabs. Correct it, or write "
        "the file again with 'python -m spacy mslm pmi'."
    )
    M123 = (
        "{path} holds no collocation of 2 to 4 words that occurs {min_count} times and passes the "
        "filters. Lower --min-count, turn the filters off (--min-chars 0 --no-stop-words), or "
        "give more text."
    )
    M130 = (
        "{where} has no mslm pipe; its pipes: {pipes}. Give a pipeline that was trained with "
        "spacy-mslm."
    )
    M131 = (
        "{path} holds no gold mention, so there is nothing to score. Give annotated text of the "
        "kind that the pipeline was trained on."
    )
    M132 = (
        "{model} is no folder, so that the result cannot be saved in its place. Say where to save "
        "it (--output FOLDER)."
    )
    M133 = "{path} exists already. Give another --output, or --force to replace it."
    M134 = (
        "{where} has several mslm pipes ({pipes}), and one can be looked at at a time. Give a "
        "pipeline with one of them."
    )
    M135 = "{path} is a folder, but the scores go to a file. Give another --output."
    M136 = "{model} has been optimised already. Give the pipeline that it was made of."
    M137 = (
        "F1 on {path} falls from {before:.2f} to {after:.2f}, by more than {limit:g}. Nothing was "
        "written. Use another --mode, allow more (--max-loss), or give --force."
    )
    M138 = (
        "There is no dev set to measure on: the config of {model} names {path}. Give one (--dev)."
    )
    M140 = (
        "A picture needs at least one model and, after the models, a file of texts: 'python -m "
        "spacy mslm heatmap MODEL TEXTS -o OUTPUT'."
    )
    M141 = "The output {path} is neither a .html nor a .png file. Give a path that ends so (-o)."
    M142 = (
        "Drawing a PNG needs matplotlib ({error}). Install it with 'pip install "
        "\"spacy-mslm[plots]\"', or give an output that ends in '.html'."
    )
    M143 = "{path} holds no text. Give a file with a text per line, a .spacy file or an IOB file."
    M144 = (
        "The texts are too long for one PNG, which would be more than {pixels} pixels high. Show "
        "fewer texts (-n), or give an output that ends in '.html'."
    )
    M150 = (
        "{path}: the header has no column {columns}. A terminology is a table with tabs or commas "
        "between its columns and a header that names, among others, term and semantic_type."
    )
    M151 = (
        "Plain text as a corpus needs to know its entities. Give tables of terms, or a .spacy file "
        "with entities in it (`python -m spacy apply` writes such)."
    )
    M152 = "{path}, line {line}: the compressed file is cut off or damaged here. Copy it again."
    M153 = "{path}, line {line}: a JSON record with a `text` is expected here."
    M154 = (
        "{path}, line {line}: fewer than the {columns} columns that this table of UMLS has. The "
        "file may be cut off: copy it again."
    )
    M156 = (
        "{name} of {set} cannot be had from {source} ({reason}). Two ways out: fetch it where "
        "the network can be reached (a mirror is given as --assets URL), or put the file into a "
        "folder as {set}/{name} and give that folder (--assets DIR)."
    )
    M157 = (
        "{source} is damaged, or another version: its SHA-256 is {found}, but {known} is expected. "
        "It was not taken over. Fetch it again, or take it from another place (--assets)."
    )
    M158 = "{path} holds no document. Check that it is whole, and the right one."
    M159 = (
        "{option} concerns IOB files only, but {path} is of the format {format}. Leave the option "
        "out, or name the format (--format)."
    )
    M160 = (
        "{path}, line {line}: the mention from {start} to {end} is not in the text, which has "
        "{length} characters: it must hold at least one character of it. Correct the offsets; they "
        "count characters, not bytes, from 0, and the end is exclusive."
    )
    M161 = "{path}, line {line}: the mention's label is empty. Give every mention a label."
    M162 = (
        "{path}, line {line}: the text of the mention is not what stands at its offsets. The "
        "annotation and the text do not belong together, or the line is cut off: restore both from "
        "their source."
    )
    M163 = (
        "{path}, line {line}: not as its format has it: {rule}. The file may be cut off or damaged "
        "here: restore it, or correct the line."
    )
    M164 = (
        "{path}, line {line}: the document {id} is there already, at line {other}. Remove one of "
        "them, or give it an id of its own."
    )
    M165 = "{path} is missing, which {other} needs. Restore it, or remove {other}."
    M166 = (
        "{path}, line {line}: this is the beginning of none of the known formats. Name the file's "
        "format (--format): {formats}."
    )
    M167 = (
        "{path} has labels that train has not, so that they could never be predicted: {labels}. "
        "Train has: {train}. Give them train's names, remove them there, or add such mentions to "
        "train."
    )
    M168 = (
        "{path} cannot be written ({reason}). Nothing was written, and files of an earlier run are "
        "as they were. Make room on the disk, or give another output."
    )
    M169 = (
        "{path} is not the whole archive of EBM-NLP ({reason}), and was removed. Fetch it again, "
        "or take it from another place (--assets)."
    )
    M170 = (
        "{path} is not the result of an evaluation. Write it with `python -m spacy evaluate MODEL "
        "DATA --output FILE`, or `python -m spacy mslm evaluate`."
    )
    M171 = "{path} holds no results. They are expected as SET/MODEL.json below it."
    M172 = (
        "A report has pictures, for which matplotlib is needed ({error}). Install it with 'pip "
        'install "spacy-mslm[plots]"\'.'
    )

    # ---- tokenizer and saving ----
    M206 = (
        "The logger's progress_bar is {got!r}, but must be one of: {expected}, or null for none. "
        "Set it in [training.logger]."
    )
    M207 = (
        "The log file {path} exists already and is not overwritten. Move or delete it, or set "
        "another output_file in [training.logger]."
    )
    M208 = (
        "The score {name!r} is of type {got}, not a number. Remove it from "
        "[training.score_weights], or set it to null there."
    )
    M211 = (
        "{where}: the file {name} is missing. The pipeline was not saved to the end, or files were "
        "lost in copying: copy or save it again."
    )
    M212 = (
        "{where}: the file {name} is not as it was written (its SHA-256 differs from the "
        "manifest's). It was damaged or changed: copy it again from its source, or save it again."
    )
    M213 = (
        "The weights of {names} are not all finite numbers, so nothing was saved to {path}. "
        "Training went wrong before the first checkpoint: lower the learn rate."
    )

    # ---- weak supervision ----
    M301 = (
        "{path}: a quote is broken in the record that begins on line {line} (noticed on line "
        "{last}): where the records after it begin cannot be told, so nothing was labelled. Inside "
        "of a quoted field a quote is written twice. Mend the record, or remove it."
    )
    M302 = (
        "{path}: the record that begins on line {line} has {n} columns, but the header has "
        "{columns}. Nothing was labelled. Mend the record, or remove it."
    )
    M303 = "{path} needs pyarrow to be read. Install it with 'pip install \"spacy-mslm[parquet]\"'."
    M304 = "{path} is damaged, or no Parquet file. Write it again."
    M305 = (
        "{path} has no column `text`. A table of notes has one, and may have row_id (note_id, id), "
        "subject_id (patient), category (note_type) and iserror."
    )
    M306 = "There are no notes. Give --paths.notes: a file, or a JSON list of files."
    M307 = (
        "None of the {n} records of {paths} can be labelled. Left out: {reasons}. Check the "
        "categories (labelling.notes.categories) and the file."
    )
    M308 = (
        "Sentences by pySBD need the package pysbd. Install it with 'pip install "
        '"spacy-mslm[weak]"\', or take spacy_mslm.RuleSentences.v1.'
    )
    M309 = "There is no folder for the corpus. Give --paths.output."
    M310 = (
        "{path} is no file of clusters, which has labels, and below each of them semantic types "
        "with their names: see assets/semantic_types.yml."
    )
    M311 = (
        "{path}, line {line}: UMLS has no semantic type {type}. Nothing was labelled. Correct it; "
        "types of another terminology may have any name that is not T and digits."
    )
    M312 = (
        "{path}, line {line}: the semantic type {type} is in the cluster {other}, too. Give it one "
        "of them."
    )
    M313 = (
        "{path}, line {line}: a semantic type, a tab and a pattern are expected, and perhaps "
        "another tab and the id of a concept."
    )
    M314 = "{path}, line {line}: the pattern is not a regular expression: {reason}."
    M315 = (
        "{path} has a corpus of other notes, terminologies or settings in it (its weak.json "
        "tells). Give another --paths.output, or --force to begin anew."
    )
    M316 = "{path} exists, and is not the folder of a weakly labelled corpus. Give another one."
    M317 = (
        "All {n} notes of a chunk have failed in an annotator, the note {note} with {error}. Try "
        "it with one annotator after the other; what was labelled before stays."
    )
    M318 = (
        "A process was killed twice while it labelled the chunks {chunks}, the first of which "
        "begins with the note {note}. If memory was short, give fewer --jobs or a smaller "
        "labelling.chunk; then give the command again: what is done is not done again."
    )
    M319 = "{path} has no [labelling] block. Start from configs/weak.cfg."

    # ---- scispaCy and MedCAT ----
    M320 = (
        "The scispaCy linker needs scispaCy, which cannot be imported ({error}). Install it with "
        "'pip install \"spacy-mslm[weak]\"'."
    )
    M321 = (
        "The knowledge base {path} is neither a file nor a release of scispaCy, which are: "
        "{releases}. Give the path of a file in scispaCy's JSONL form (kb)."
    )
    M322 = "{path}, line {line}: a JSON record of a concept is expected here."
    M323 = (
        "{path}, line {line}: the field {field} {problem}. A concept has a concept_id and a "
        "canonical_name, a list of aliases, which may be empty, and a list of types."
    )
    M324 = "{path} holds no concept. Give a file in scispaCy's JSONL form (kb)."
    M325 = (
        "scispaCy's release {name!r} cannot be had ({error}). Let scispaCy fetch it where the "
        "network can be reached, and copy its cache (~/.scispacy); or give a file of your own (kb)."
    )
    M326 = (
        "The pipeline {model!r} cannot be loaded ({error}). Install it, give its folder, or set "
        "model to null: then all n-grams are candidates."
    )
    M327 = (
        "{folder} is there already, and was not made by medcat-setup. It stays as it is: give "
        "another folder."
    )
    M328 = (
        "MedCAT {version} cannot be installed in {folder} ({error}). Check that PyPI can be "
        "reached, and start medcat-setup again."
    )
    M330 = (
        "The MedCAT annotator takes either a model pack and the environment that runs it (model, "
        "environment), or annotations that MedCAT has exported (export): {problem}."
    )
    M331 = (
        "{folder} is not a finished environment of MedCAT. Make one with 'python -m spacy mslm "
        "weak medcat-setup FOLDER', and give it as environment."
    )
    M332 = "The model pack {path} cannot be unpacked ({error}). Copy it again."
    M333 = (
        "MedCAT cannot load the model pack {path} ({error}). Check that it is a whole pack, and of "
        "a version that the MedCAT in {environment} can read."
    )
    M334 = (
        "MedCAT failed twice, the second time in a new process: it {reason}. {where} What MedCAT "
        "writes is not shown, as it may hold text of notes. Leave the note out, raise timeout, or "
        "give the process more memory."
    )
    M335 = (
        "{path} holds no annotations as MedCAT exports them ({problem}). Give an export of "
        "MedCATtrainer, or the entities that cat.get_entities_multi_texts gives, by note id, as "
        "JSON."
    )
    M336 = (
        "{path}: document {id}: annotation {number} {problem}. Export it again; offsets count "
        "characters from 0, and the end is exclusive."
    )
    M337 = (
        "{path}: the text of document {id} is not that of the note of this id, so that offsets do "
        "not fit. Annotate the notes as they are read here, or correct the ids."
    )
    M338 = (
        "{path} has annotations without a semantic type, as those of MedCATtrainer are. Give the "
        "table of concepts that the model was made of (types): a CSV file with the columns cui and "
        "type_ids."
    )
    M339 = "{path}: the header has no column {columns}. A table of concepts has cui and type_ids."

    # ---- context, label model, review ----
    M340 = (
        "The context {kind} is {got!r}, but must be 'keep', 'drop', or a label, in which {{label}} "
        "stands for the mention's own, such as 'Negated{{label}}'."
    )
    M341 = (
        "The label model needs skweak ({error}). Install it with 'pip install "
        '"spacy-mslm[skweak]"\', or aggregate by spacy_mslm.Priority.v1.'
    )
    M342 = (
        "The label model has nothing to learn from: in the {n} documents of the sample nothing was "
        "found. Check the annotators and the clusters, or give more notes."
    )
    M343 = (
        "What the label model has learnt cannot be read ({error}). Delete the file, so that it is "
        "learnt again."
    )
    M344 = (
        "The label model has not learnt what {sources} find. Let it learn again, of all the "
        "annotators of the config."
    )
    M345 = "The label model has learnt nothing yet. Call fit, or load what was learnt before."
    M350 = "{path} has no labelled sentence to review. Give a corpus in which something was found."
    M351 = (
        "{path}: the id {id} is there more than once, so that a review could not be told from the "
        "other. Give every document its own user_data['id']."
    )
    M352 = "A review needs at least 1 sentence, but {n} are asked for."
    M354 = (
        "{path} has no reviewed sentence: of {original}, none came back accepted or rejected. "
        "Export it again from Prodigy or doccano."
    )
    M355 = "{path}, line {line}: the answer is not one of {expected}, as Prodigy has them."


class Warnings:
    # ---- model and training ----
    W010 = (
        "The encoder {name!r} has no masked-LM head: it gets a fresh one, tied to the input "
        "embeddings. Its masked-LM loss starts high and falls as the head learns."
    )
    W011 = (
        "The vocabulary of {name!r} is cased, but the checkpoint does not say so and transformers "
        "would lower-case all text. It is loaded as cased. To silence this, put "
        '{{"do_lower_case": false}} into its tokenizer_config.json.'
    )
    W012 = (
        "No masked-LM head adapter for encoders of type {family!r}: every position is projected "
        "onto the vocabulary, which is slower and gives the same result."
    )
    W020 = (
        "{name}: the data has no entity labels, so nothing will be predicted. Give data with "
        "entities, or labels in [initialize.components.{name}]."
    )
    W021 = (
        "The 'masked' view hides every masked mention from the tagging heads, so the model will "
        "find few or no entities in ordinary, unmasked text. It is there to reproduce the paper; "
        "use 'clean' or 'mixed' for a model that is meant to be used."
    )
    W022 = (
        "The mask-specific weights are equal ({n_elm} ELM and {n_blm} BLM pieces are masked): "
        "domain terms weigh no more than other words. Lower the ELM rate, raise the BLM rate, or "
        "set mask_weights.threshold and temperature."
    )
    W023 = (
        "Gold mention left out: document {doc}, characters {start}:{end}: {reason}. Its tokens are "
        "treated as not annotated."
    )
    W024 = (
        "The training set {path} is not there, so scores do not tell seen from unseen mentions. "
        "To have them, give its path: 'python -m spacy mslm evaluate ... --train PATH'."
    )
    W025 = (
        "Nothing is learnt from masks: the masked-LM loss weighs 0 and there is no text to adapt "
        "to, so this is plain fine-tuning. Give text of the domain (--paths.text) and a folder for "
        "the adapted encoder (--paths.adapted), or components.mslm.loss_weights.mlm."
    )
    # ---- data files and commands ----
    W101 = (
        "{path}: {count} gold span(s) cannot be learned, as they are zero-length or have an empty "
        "label: {places}. Correct them and write the file again."
    )
    W102 = (
        "{count} of the {total} texts of {other} are also in {train}, so that scores on them may "
        "be too high: {ids}. Remove them from {train}."
    )
    W103 = (
        "The labels differ between the splits: {labels}. A label that is absent from train cannot "
        "be predicted; one that is absent elsewhere is not evaluated."
    )
    W104 = (
        "Gold mentions were masked before tagging, as the paper's authors do: the model sees where "
        "they are. These scores say nothing of new text; they are there to reproduce the paper."
    )
    W150 = "{path}: {n} lines do not have the columns of the header and are left out: {lines}."
    W160 = (
        "{split}: {count} gold mention(s) left out, each as {reason}; what no other mention has of "
        "their tokens counts as not annotated. Documents and characters: {places}."
    )
    W161 = (
        "{path}: {count} records were not accepted by their annotator and are left out, lines "
        "{lines}."
    )
    W162 = (
        "{path} was not verified, as no checksum of it is known. Its SHA-256 is {sha256}: compare "
        "it with that of someone you trust."
    )
    # ---- tokenizer and saving ----
    W201 = (
        "{count} lone surrogate(s) in a text were replaced by U+FFFD, at character offsets "
        "{offsets}. The text was decoded wrongly: read its file as UTF-8 with errors='replace'."
    )
    W213 = (
        "The weights of {names} are not all finite numbers. They were not saved: {path} stays as "
        "it was at the last good checkpoint."
    )
    # ---- scispaCy and MedCAT ----
    W320 = (
        "MedCAT failed on the note {id} with {error}: it has no concepts of MedCAT. What MedCAT "
        "says is not shown, as it may hold text of the note."
    )
    W321 = (
        "{n} of {total} notes are not in {path}, and have no concepts of it: {ids}. Export all "
        "notes, or leave these out."
    )
    W322 = (
        "{path}: {n} annotations are left out, as the table of concepts gives no semantic type for "
        "theirs: {concepts}."
    )
