"""Chinese: how complete a partial transcript is."""

from __future__ import annotations

import re
from typing import Final

from .lastword_en import ANNOUNCES, BROKEN_OFF, QUESTION, REQUEST, SHORT, STATEMENT, WHOLE, WISH
from .script import word_set

_NOT_LETTERS: Final = re.compile(r"[^\w\u4e00-\u9fff]+")
_QUESTION_WORDS: Final = re.compile(
    r"吗|呢|什么|谁|哪|怎么|怎样|为什么|几|多少|多久|多长|多大|多高|多远|多快|如何|是不是|有没有|能不能|"
    r"可不可以|要不要|会不会|好不好|行不行|对不对|对吧|还是.+[的]?$|没有$"
)
_ALWAYS: Final = tuple(
    word_set(
        "和 跟 与 以及 或 或者 还有 但 但是 可是 不过 而且 然后 就是 因为 所以 如果 要是 虽然 除了 关于 对于 "
        "根据 通过 为了 把 被 给 从 向 往 使 由 将 呃 额 就是说 比如 比如说 例如 包括 首先 比方说 也就是 "
        "怎么说呢 让我想想 让我想一下 我想想 我想一下 非常 特别 更 最 比较 有点 稍微 已经 正在 刚刚 想要 "
        "应该 需要 觉得 认为 希望 请问 帮我 告诉我你 我想 我要 我们 他们 你们 你能 能不能 可不可以 是不是 "
        "有没有 的时候 以后就 那如果 为什么我的 应该怎么 大概是 另外 并且 甚至 不仅 无论 到底 究竟 一共 总共 "
        "请 能不能给我 可以告诉我 你可以 想知道 我知道 还要 我想买 想找 而 超过 等于 变成 属于 叫做 位于 "
        "整个 所有 各种 其中 让我 叫我 教我 且"
    )
)
"""Endings after which people go on."""
_COMPLETE_ENDINGS: Final = re.compile(
    r"(?:你呢|谢谢|再见|可以|还没|不要|不用|不行|不知道|知道了|好了|行了|算了|停|对了吗|多少|什么|怎么办|"
    r"怎么样|为什么|没有|不是|不对|都要|就是了|有没有|还给我|打给我|发给我|告诉我|寄给我|交给我|借给我|送给我|"
    r"拿给我)$"
)
_WHOLE_SHORT: Final = word_set(
    "嗯 对 对对对 好 好的 是 是的 是吗 行 可以 不 不是 没有 停 谢谢 你好 早上好 晚安 再见 哦 知道了 明白了 没事 "
    "不用 不用了 对的 真的 好吧 算了 别说了 查一下 等一下 没关系 就是 还有吗 然后呢 有 要 不要"
)
_HESITATIONS: Final = word_set("其实 不好意思 那个 这个 等等 对了 说实话 另外 那 那么 喂 还有 然后")
_DE_COMPLETE: Final = re.compile(
    r"(?:[好是对行真]的|可以的)$|是[^，。]{1,12}的$|[挺很蛮怪够太]\S{1,4}的$|(?:会|不会|还会)\S{1,6}的$|"
    r"(?:怎么|什么|哪|谁|吗|几)\S{0,10}(?<![我你他她])的$|没有\S{0,8}的$|有没有\S{1,8}的$|一样的$|(?:我要|就要|"
    r"换|选)\S{1,4}的$|当然的$"
)
_MEASURE: Final = "[个张本件台辆块条只份双瓶杯部间款位家把套支首篇封些种]"
_COUNT_HANGS: Final = re.compile(
    rf"(?<![第哪下上换再另外选同])[一两三四五六七八九十某每]{_MEASURE}$|[这那]{_MEASURE}(?<![个些])$|"
    rf"推荐几{_MEASURE}$"
)
_FROM_HANGS: Final = re.compile(r"从[^到去来往出开起走飞坐搬回拿借学看]{1,6}$")
_TO_BE_HANGS: Final = re.compile(
    r"(?:意思|问题|名字|原因|目的|地址|号码|时间|电话|最喜欢的|说的|想的|要的|关键|重点|主要)(?:就)?是$"
)
_VERB_HANGS: Final = re.compile(
    r"(?:^|[我你他她]|帮我|请|要|想|不)(?:查一下|查|找一下|搜一下|比较一下|介绍一下|推荐|订|买|去|住在|用|叫|"
    r"听说|打算|准备|调到|改到|放到|送到)$"
)
_REQUEST_WITHOUT_OBJECT: Final = re.compile(
    r"^(?:请|帮我|给我|能不能|能|麻烦你?|你)(?:详细|简单|帮我)?(?:给我)?"
    r"(?:安排|设计|介绍|讲讲|讲|写|做|说明|解释|比较|推荐|讲一个|写一个|找一个)$"
)
_AT_HANGS: Final = re.compile(
    r"(?:在|比|对|是|让|用|跟着|从.{1,8}到|[张票]去|(?<!不)怎么|(?<![还打发寄交借送拿讲唱])给我|(?:调|改|放|送|"
    r"搬|换|寄|发|翻译)[到成给]|(?:你可以|能不能|可以|请)告诉我)$"
)
_PREPOSITIONAL: Final = re.compile(
    r"^(?:关于|对于|除了|至于|随着|根据)[^，]{0,8}$|把[^，]{0,6}(?:的|这个|那个)$|东西比$|"
    r"(?:请)?帮我把[^，]{0,4}(?<![了开上掉好来去下])$"
)
_SUBJECT_ONLY: Final = re.compile(
    r"^(?:那|那么|所以|但是|然后|如果|要是|因为)?(?:我|你|他|她|它|我们|你们|他们|她们)(?:也|都|就|还|又|能|会|"
    r"要|想|在|是|说|看)?$"
)
_SUBORDINATE: Final = re.compile(
    r"^(?:那|嗯|呃)?(?:如果|要是|假如|虽然|既然|只要|除非|尽管|即使|自从|当|等我|等你|每次|一旦|万一)"
)
_MAIN_CLAUSE: Final = re.compile(r"就(?!是)|那(?!个|边|里|家|些|条|天)|所以|但是|可是|却|也|请|帮|给我|应该|可以|该")
_ANNOUNCES: Final = re.compile(
    r"^(?:嗯|那|你好|喂|呃|是这样|所以)?(?:我(?:们)?(?:有|在想|打算|准备|最近|昨天|今天|上周|刚才|刚刚|正在|"
    r"计划|想问|想请教|想咨询|要去|下个?月|下星期|下周|家)|想问一下|想请教|是这样的?$|事情是这样的?|(?:昨天|"
    r"今天|今早|前天|上周|上个月|刚才|最近|有一次)|我的?(?:订单号|电话|手机|电脑|账号|车|猫|狗|孩子|儿子|女儿|"
    r"邻居|老板)|(?:订单|卡|手机)号)"
)
_WISH: Final = re.compile(r"^(?:那|嗯)?我(?:们)?(?:想|要|想要)(?:换|学|买|找|去|订|吃|看|做)")
_IMPERATIVE: Final = re.compile(
    r"^(?:那|嗯|好|先|再|就|还是)?(?:请|帮|给我|把|讲|说|放|打开|关|停|取消|查|找|订|换|改|设|提醒|告诉|介绍|"
    r"写|播|调|别|不要|不用|算|翻译|推荐|安排|来)"
)


def chinese_completeness(text: str) -> float:
    """See :func:`.lastword.completeness`."""
    raw = text.strip()
    if raw.endswith(("...", "…", "-", "—")):
        return BROKEN_OFF
    comma = raw.endswith(("，", ",", "、", "：", ":"))
    body = raw.rstrip(" 。，！？；：、,.!?;:")
    asked = raw.endswith(("？", "?"))
    sentence = re.split(r"[。！？!?]\s*", body)[-1]
    plain = _NOT_LETTERS.sub("", sentence)
    if not plain:
        return 0.0
    if plain in _HESITATIONS:
        return 0.3
    if plain in _WHOLE_SHORT:
        return BROKEN_OFF if plain in {"就是", "要"} else SHORT
    if _breaks_off(plain, sentence):
        return BROKEN_OFF
    questions = bool(_QUESTION_WORDS.search(plain))
    if comma and not questions:
        return BROKEN_OFF
    if _SUBORDINATE.search(plain) and not questions and not _MAIN_CLAUSE.search(plain[3:]):
        return BROKEN_OFF
    return _graded(plain, asked=asked, questions=questions)


def _graded(plain: str, *, asked: bool, questions: bool) -> float:
    if questions:
        return WHOLE if asked and len(plain) > 3 else QUESTION
    if _IMPERATIVE.search(plain):
        return REQUEST
    if _ANNOUNCES.search(plain):
        return ANNOUNCES
    if _WISH.search(plain):
        return WISH
    if asked:
        return REQUEST
    return SHORT if len(plain) <= 4 else STATEMENT


def _breaks_off(plain: str, sentence: str) -> bool:
    last_part = _NOT_LETTERS.sub("", re.split(r"[，,、]", sentence)[-1])
    if last_part in {"嗯", "呃", "额", "那个", "这个", "就是"}:
        return True
    if plain.endswith("的"):
        return _DE_COMPLETE.search(plain) is None
    if _TO_BE_HANGS.search(plain) or _COUNT_HANGS.search(plain) or _FROM_HANGS.search(plain):
        return True
    if _PREPOSITIONAL.search(plain) or _SUBJECT_ONLY.search(last_part):
        return True
    if _AT_HANGS.search(plain):
        return not plain.endswith(("不是", "也是", "都是", "就是", "不在", "还在", "不对", "别用", "不用"))
    if _COMPLETE_ENDINGS.search(plain):
        return len(plain) > 4 and plain.endswith("有没有")
    if plain.endswith(_ALWAYS):
        return True
    return bool(_VERB_HANGS.search(plain) or _REQUEST_WITHOUT_OBJECT.search(plain))
