// All of libheadway_text: tokenizers, models of every family, tasks on text, generation, translation, training and
// views of the attention. Includes headway/headway.h, and is installed only together with libheadway_text.
#pragma once

#include "headway/attention_view.h"
#include "headway/fine_tuning.h"
#include "headway/headway.h"
#include "headway/mask_filler.h"
#include "headway/question_answerer.h"
#include "headway/rouge.h"
#include "headway/text_classifier.h"
#include "headway/text_encoder.h"
#include "headway/text_generator.h"
#include "headway/text_pairs.h"
#include "headway/text_task.h"
#include "headway/text_to_text.h"
#include "headway/text_tokenizer.h"
#include "headway/token_tagger.h"
#include "headway/tokenizer.h"
#include "headway/transformer_model.h"
#include "headway/translation_model.h"
#include "headway/translation_scores.h"
#include "headway/translation_training.h"
#include "headway/translator.h"
