"All that draws, in one place: a look per model, the stage, the player, the paper's figures, and a way to save them."

from .choices import fig6 as fig6
from .figures import (
    Example as Example, FIG3 as FIG3, PUBLISHED_ADE as PUBLISHED_ADE,
    PUBLISHED_SCORES as PUBLISHED_SCORES, Panel as Panel, bar_table as bar_table, curve_table as curve_table,
    describe as describe, error_table as error_table, fig3 as fig3, fig4 as fig4, fig5 as fig5,
    swm3 as swm3, swm4 as swm4,
)
from .marks import claims_figure as claims_figure
from .player import Replay as Replay, arena_replay as arena_replay, arena_stage as arena_stage, read_events as read_events
from .scenes import (
    PanelScene as PanelScene, Rollout as Rollout, event_table as event_table, fig1 as fig1, fig2 as fig2,
)
from .stage import (
    ENTITY_COLORS as ENTITY_COLORS, Stage as Stage, stage_key as stage_key, trace_table as trace_table,
)
from .style import (
    STYLES as STYLES, Style as Style, WIDTH as WIDTH, add_note as add_note, house_style as house_style,
    panel_title as panel_title, remarks as remarks, save_figure as save_figure, series_of as series_of,
    stamp as stamp, styles_of as styles_of,
)
