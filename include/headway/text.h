// Everything of libheadway_text: tokenizers, translation models, translation, their training and explanation. It brings
// headway/headway.h with it, and is installed where that library is.
#pragma once

#include "headway/attention_view.h"
#include "headway/headway.h"
#include "headway/text_pairs.h"
#include "headway/tokenizer.h"
#include "headway/translation_model.h"
#include "headway/translation_scores.h"
#include "headway/translation_training.h"
#include "headway/translator.h"
